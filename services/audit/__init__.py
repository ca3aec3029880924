"""The audit from the topics alone: whether attempts add up, and the story of one workflow."""
