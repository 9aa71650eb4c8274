"""What a run and a scan are shown as: an object of the API, and text."""
