"""Two runs compared: which figures differ outside the noise, and what differs with them."""
