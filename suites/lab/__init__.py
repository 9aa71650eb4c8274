"""The laboratory: campaigns that prove the product. It is not part of the wheel."""
