"""Records in the formats of other tools. docs/formats.md lists the exporters and says how to add one."""
