"""Pure compilers from a resolved schema to a provider's schema, and back."""
