"""What a model is made from: files, variables and chance; and the artifact of a model that is made from the same."""
