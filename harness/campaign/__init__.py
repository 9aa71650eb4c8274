"""One engine for many questions: planned, asked by a crew, kept in a run folder, resumed, and put together."""
