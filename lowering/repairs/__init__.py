"""Changes to the programs that upstream compiles, and checks that refuse some of them."""
