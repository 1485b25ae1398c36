package inspect

type RejectError struct{ Rule string }

func (e *RejectError) Error() string { return e.Rule }

type Module struct{}

func Scan([]byte) (*Module, error) { return &Module{}, nil }
