package host_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/wfhost/wfhost/host"
)

func TestMain(m *testing.M) {
	host.CompilerMain()
	poisonHost()
	mutantsHost()
	goleak.VerifyTestMain(m)
}
