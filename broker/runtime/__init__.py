"""What all state machines share: deadlines, waiters, and the runtime of coordinators."""
