"""What a broker decides, without Ray and without a network."""
