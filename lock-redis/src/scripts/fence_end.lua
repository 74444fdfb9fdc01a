
end
return { false, (write()) }
