"""What Kubernetes itself says, as data, each rule with its source."""
