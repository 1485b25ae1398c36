package guest

import "crypto/rand"

// RealRandom fills p from the system's secure random.
func RealRandom(p []byte) {
	if _, err := rand.Read(p); err != nil {
		panic(err) // crypto/rand.Read never fails since Go 1.24
	}
}
