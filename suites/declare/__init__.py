"""The vocabulary of test declarations: cases, models, profiles, expectations of a target."""
