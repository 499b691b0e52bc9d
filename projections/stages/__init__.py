"""What every version stands on: one file a stage and version, frozen like the versions themselves."""
