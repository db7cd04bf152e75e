"""The commands `eagleray pipeline …`."""
