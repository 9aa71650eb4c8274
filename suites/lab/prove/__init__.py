"""What proves that the product is right: exactness, other people's tests and numbers, networks of all kinds."""
