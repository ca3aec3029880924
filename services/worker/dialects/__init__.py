"""Pure compilers from an resolved schema to what one provider accepts, and back."""
