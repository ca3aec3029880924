"""Everything a worker owns for one partition."""
