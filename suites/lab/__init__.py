"""The laboratory: what the product is proved with. It is not part of the wheel."""
