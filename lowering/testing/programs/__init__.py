"""TOSA programs that say what the NPUs can be asked for: every operator alone, schedules, and whole networks."""
