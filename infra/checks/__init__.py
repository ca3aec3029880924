"""All checks of this repository in order, with progress and one total at the end."""
