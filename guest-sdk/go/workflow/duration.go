//go:build !wasip1

package workflow

import "github.com/wfhost/wfhost/abi"

// parseDuration reads duration text as the host does.
func parseDuration(text string) (int64, error) { return abi.ParseDuration(text) }
