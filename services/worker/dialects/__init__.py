"""Pure compilers from an authority schema to what one provider accepts, and back."""
