"""The systems on chip, each declared once: memories, NPUs, interrupt, UART, firmware and FVPs."""
