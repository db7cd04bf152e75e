"""Who comes in: listeners and security protocols, names in certificates, SASL and credentials. Pure decisions."""
