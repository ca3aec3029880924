"""`answerbus providers`: the providers that are installed, and whether they keep their promises."""
