module github.com/wfhost/wfhost/host/wasmtime

go 1.26.0

require (
	github.com/bytecodealliance/wasmtime-go/v39 v39.0.1
	github.com/wfhost/wfhost v0.0.0
)

replace github.com/wfhost/wfhost => ../..
