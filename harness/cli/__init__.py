"""The command line: arguments read, results shown."""
