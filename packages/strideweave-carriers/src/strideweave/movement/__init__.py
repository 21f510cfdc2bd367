"""Moving values between carriers, blocking or asynchronously, by exact class pair."""
