"""What a schema or a value may cost, found before anything is compiled or checked."""
