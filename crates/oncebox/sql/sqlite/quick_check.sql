SELECT quick_check FROM pragma_quick_check LIMIT 20
