package limits

import "math/bits"

// Share is the part of a limit that a host of a cluster has: Own of All, in proportion to the weights of the hosts. The zero
// Share is the whole limit.
type Share struct{ Own, All int64 }

// Of returns the host's part of a limit, rounded to the nearest number, and at least 1: so a limit below the number of hosts is
// exceeded. 0, which means no limit, stays 0.
func (s Share) Of(limit int64) int64 {
	if limit <= 0 || s.All <= s.Own || s.Own <= 0 {
		return limit
	}
	high, low := bits.Mul64(uint64(limit), uint64(s.Own))
	low, carry := bits.Add64(low, uint64(s.All/2), 0)
	part, _ := bits.Div64(high+carry, low, uint64(s.All)) // below limit
	return max(int64(part), 1)
}
