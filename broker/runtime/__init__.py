"""What all state machines share: deadlines."""
