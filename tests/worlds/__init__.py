"""Laws 23 and 25 on as many random worlds as there is time for: `make law-worlds WORLDS=200000`."""
