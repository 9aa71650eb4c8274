"""The parts of a command stream: registers, commands, feature maps, operations, and the NPUs that read them."""
