//go:build !wasip1

// Go demands this file, since functions of env_label.go have no body.
