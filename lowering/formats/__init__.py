"""File formats, read without the tools that write them: .pte, TOSA, Vela blobs, command streams."""
