"""The words that tests are declared with: cases, models, profiles, expectations of a target."""
