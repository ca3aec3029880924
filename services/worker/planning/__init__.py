"""From a request, a step or a composition to the plan by which it is asked."""
