"""A fuzzer of the client of GDB's remote protocol: it loads and starts a program through servers that play tricks.

Whatever a server does, the load must end in time, in success or in an error of the probe, the memory or the board that
says which server it was. It must not succeed where the program is not in memory as it should be, or the processor does
not start where it should. A case is a function of seed and number.
"""
