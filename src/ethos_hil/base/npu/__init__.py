"""The Ethos-U NPUs: a file for each family has all that distinguishes it and its sizes."""
