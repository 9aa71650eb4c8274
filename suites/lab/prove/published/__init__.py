"""Published totals of FVPs, beside the timing model's and Vela's."""
