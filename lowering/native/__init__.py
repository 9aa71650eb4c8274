"""Tools in native code, each in a process of its own: what ends that process is an error here, with a message.

Vela's compiler and tosa_reference_model are C++ in Python extensions. On some programs they end their process: by a
signal, an exit, or by taking all memory. So each has a worker process, which starts once and serves every call. When a
call ends it, `NativeCrash` says how, and the next call starts another.
"""
