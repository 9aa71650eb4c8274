"""The systems on chip, each declared once, in a file of this folder named after it.

`soc` has the words to declare one with, `registry` finds the declarations and lists the FVPs of all of them, and
`firmware_files` writes what the firmware's build needs. docs/targets.md says how to add one.
"""
