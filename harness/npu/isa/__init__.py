"""What a command stream is made of: registers, commands, feature maps, operations, and the NPUs that read them."""
