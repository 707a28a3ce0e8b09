"""What others would build, to be measured beside headrace: one file each."""
