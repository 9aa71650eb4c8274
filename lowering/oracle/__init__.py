"""What is right: the reference outputs of a program, and how far two right answers may be apart."""
