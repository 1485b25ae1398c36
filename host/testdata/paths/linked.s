// This file lets main.go declare functions of the SDK.
