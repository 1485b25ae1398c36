module github.com/wfhost/wfhost

go 1.26
