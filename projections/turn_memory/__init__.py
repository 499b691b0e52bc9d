"""What later turns keep of an ended turn: one file a version."""
